//! The specification, checked over the wire by the suite that also judges the distribution registry.

mod support;

use fixtures::conformance::deviations;
use support::dvcr;

#[test]
fn nothing_deviates_from_the_specification() {
    let registry = dvcr().start();
    let found: Vec<String> = deviations(&registry.wire()).iter().map(ToString::to_string).collect();
    assert!(found.is_empty(), "\n{}\n", found.join("\n"));
}
