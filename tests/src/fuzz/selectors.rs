//! Label and field selectors, and continue tokens.

use firesteel_kube::{FieldSelector, LabelSelector, builtin, check_token};

/// Each line is read as all three.
pub(super) fn check(input: &[u8]) {
    let Ok(text) = std::str::from_utf8(input) else { return };
    let event = builtin::kinds().into_iter().find(|kind| kind.kind == "Event").unwrap();
    for line in text.lines() {
        match LabelSelector::parse(line) {
            Ok(selector) => {
                let written = selector.to_string();
                assert_eq!(LabelSelector::parse(&written).as_ref(), Ok(&selector), "{written}");
            }
            Err(status) => assert_eq!(status.code, 400),
        }
        match FieldSelector::parse(&event, line) {
            Ok(selector) => {
                let written = selector.text();
                assert_eq!(FieldSelector::parse(&event, &written).as_ref(), Ok(&selector), "{written}");
            }
            Err(status) => assert_eq!(status.code, 400),
        }
        check_token(line);
    }
}

pub(super) fn seeds() -> Vec<Vec<u8>> {
    [
        "rack in (r1,r2),!foo\nrack notin ( a , ),x.io/y\na=b,c==d,e!=f\na=,b",
        "metadata.name=x,metadata.namespace!=y\ninvolvedObject.kind==Host,reason=Seen,type!=\nspec.online=true",
        "eyJ2IjoibWV0YS5rOHMuaW8vdjEiLCJydiI6Nywic3RhcnQiOiJkZWZhdWx0L2EifQ",
        "eyJ2IjoibWV0YS5rOHMuaW8vdjEiLCJydiI6LTEsInN0YXJ0IjoiL2EifQ\nb25l",
        "a in ((\n!\n=,=\na,,b\na in (b",
    ]
    .map(|text| text.as_bytes().to_vec())
    .to_vec()
}
