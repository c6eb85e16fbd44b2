//! `-fcurtail-pthreads`: a program of pthreads whose threads are Curtail's.

use crate::toolkit::Toolkit;

/// `-fcurtail-pthreads`: the program's threads are to be Curtail's.
pub(crate) fn take(arguments: &mut Vec<String>) -> bool {
    let before = arguments.len();
    arguments.retain(|argument| argument != "-fcurtail-pthreads");
    arguments.len() < before
}

/// What links the library in, so that its functions come before the C library's.
pub(crate) fn arguments(toolkit: &Toolkit) -> Result<Vec<String>, String> {
    let home = toolkit.layout.parts.display();
    let library = toolkit.layout.parts.join("libcurtail_pthread.so");
    if !library.is_file() {
        return Err(format!("no {}: `./x build` makes it", library.display()));
    }
    let words = [
        "-Wl,--push-state,--no-as-needed".to_owned(),
        library.display().to_string(),
        format!("-Wl,--pop-state,-rpath,{home}"),
    ];
    Ok(words.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_of_ours_are_asked_for_once_or_more_often() {
        let words = ["-O2", "-fcurtail-pthreads", "a.c", "-fcurtail-pthreads"];
        let mut words = words.map(str::to_owned).to_vec();
        assert!(take(&mut words));
        assert_eq!(words, ["-O2", "a.c"]);
        assert!(!take(&mut words));
    }
}
