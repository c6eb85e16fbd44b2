//! The README's service on axum is the example, which compiles.

#[test]
fn the_readmes_service_is_the_example() {
    let readme = include_str!("../../../README.md");
    let example = include_str!("../examples/service.rs");
    let (_, program) = example.split_once("\n\n").expect("a comment, and the program");
    assert!(readme.contains(program), "the README's service and examples/service.rs are one text");
}
