//! What the options are called that help.

/// Which end of a copy a client talks to. Errors name the options that would help, and those of the target have names of
/// their own: this is the one place that knows them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Side {
    /// `--ca`, `--insecure`, …
    #[default]
    Source,
    /// `--target-ca`, `--target-insecure`, …
    Target,
}

impl Side {
    /// An option of the source, as this side has it: `--ca` of `ca`.
    #[must_use]
    pub fn option(self, name: &str) -> String {
        match self {
            Self::Source => format!("--{name}"),
            Self::Target => format!("--target-{name}"),
        }
    }

    /// The options that say who we are to a registry.
    #[must_use]
    pub fn credentials(self) -> String {
        let [user, password, file] = ["user", "password-file", "auth-file"].map(|name| self.option(name));
        format!("{user} and {password}, or {file}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_options_of_a_side_are_its_own() {
        assert_eq!((Side::Source.option("ca"), Side::Target.option("ca")), ("--ca".into(), "--target-ca".into()));
        assert_eq!(Side::Target.credentials(), "--target-user and --target-password-file, or --target-auth-file");
    }
}
