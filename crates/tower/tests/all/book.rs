//! The book's service on axum is the example, which compiles.

#[test]
fn the_books_service_is_the_example() {
    let book = include_str!("../../../../docs/src/pool.md");
    let example = include_str!("../../examples/service.rs");
    let (_, program) = example.split_once("\n\n").expect("a comment, and the program");
    assert!(book.contains(program), "the book's service and examples/service.rs are one text");
}
