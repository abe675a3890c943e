//! Clients of other people.

mod support;

use fixtures::oci::write_layout;
use fixtures::{run, tool};
use support::{dvcr, image, noise, output};

#[test]
fn skopeo_and_umoci() {
    let registry = dvcr().start();
    let home = tempfile::tempdir().unwrap();
    let at = |name: &str| format!("oci:{}", home.path().join(name).display());
    write_layout(&home.path().join("in"), &[("v1", &image(&noise(5 << 20, 1)))]);
    let host = registry.host();
    let skopeo = |args: &[&str]| run(tool("skopeo").args(args));
    let (first, second) = (format!("docker://{host}/cvi/jammy:v1"), format!("docker://{host}/vi/ns/jammy:v2"));
    skopeo(&["copy", "--dest-tls-verify=false", &at("in:v1"), &first]);
    skopeo(&["copy", "--src-tls-verify=false", "--dest-tls-verify=false", &first, &second]);
    skopeo(&["copy", "--src-tls-verify=false", &second, &at("out:v2")]);
    let digest = |place: &str| skopeo(&["inspect", "--tls-verify=false", "--format", "{{.Digest}}", place]).stdout;
    assert_eq!(digest(&first), digest(&second));
    assert_eq!(digest(&second), digest(&at("out:v2")));
    let layouts = format!("{}", home.path().join("out").display());
    assert!(String::from_utf8(run(tool("umoci").args(["ls", "--layout", &layouts])).stdout).unwrap().contains("v2"));
    skopeo(&["delete", "--tls-verify=false", &first]);
    assert!(output("check", registry.root(), &[]).contains("all sound"));
    assert!(!output("ls", registry.root(), &[]).contains("cvi/jammy"));
}
