//! What is typed wrongly, and what nobody answers.

use super::palisade;

#[test]
fn a_wrapper_command_keeps_the_small_codes_for_its_command() {
    let code = |arguments: &[&str]| palisade().args(arguments).output().unwrap().status.code();
    assert_eq!(code(&["lock", "nightly", "--no-such-flag", "--", "true"]), Some(125));
    assert_eq!(code(&["lock", "nightly"]), Some(125));
    assert_eq!(code(&["elect", "nightly"]), Some(125));
    assert_eq!(code(&["who"]), Some(2));
    assert_eq!(code(&["who", "--help"]), Some(0));
}

#[test]
fn without_a_cluster_a_question_is_answered_by_3_and_the_wrapper_by_125() {
    // Port 1 of this machine refuses at once.
    let ask = |arguments: &[&str]| {
        palisade()
            .args(["--endpoints", "127.0.0.1:1", "--timeout", "300ms"])
            .args(arguments)
            .output()
            .unwrap()
    };
    for question in [&["status"][..], &["who", "nightly"], &["locks"], &["check", "a.b.c"]] {
        let answer = ask(question);
        assert_eq!(
            answer.status.code(),
            Some(3),
            "{question:?}: {}",
            String::from_utf8_lossy(&answer.stderr)
        );
        assert!(answer.stdout.is_empty(), "{question:?}");
    }
    assert_eq!(ask(&["lock", "nightly", "--", "true"]).status.code(), Some(125));
}
