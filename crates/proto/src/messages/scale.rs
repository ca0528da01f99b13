//! How many workers each provisioner has to start: the same rule for all provisioners.

use forebay_core::{Error, Result};

use crate::{GetScaleResponse, KindWanted};

impl GetScaleResponse {
    /// Returns how many workers the provisioner of `kind` has to run; the flag is true for spot workers. `None` while
    /// the number is unknown: the provisioner then changes nothing.
    ///
    /// # Errors
    /// Invalid when the dispatcher has worker types and `kind` is `None` or not one of them; or when it has no types
    /// and `kind` names one.
    pub fn wanted_of(&self, kind: Option<(&str, bool)>) -> Result<Option<u32>> {
        let Some((name, spot)) = kind else {
            if self.kinds.is_empty() {
                return Ok(Some(self.wanted).filter(|&wanted| wanted > 0));
            }
            let message = "the dispatcher wants a number of workers of each kind, and no kind is named here";
            return Err(Error::invalid(message).hint(format!("name the kind that is started here: {}", self.named())));
        };
        let of = self.kinds.iter().find(|of| of.kind == name && of.spot == spot);
        of.map(|of| of.wanted).ok_or_else(|| {
            let hint = match self.named() {
                none if none.is_empty() => "start the dispatcher with --offer, or name no kind here".to_owned(),
                kinds => format!("it knows {kinds}"),
            };
            let kind = KindWanted { kind: name.to_owned(), spot, ..KindWanted::default() };
            Error::invalid(format!("the dispatcher knows no workers of kind {}", kind.named())).hint(hint)
        })
    }

    fn named(&self) -> String {
        self.kinds.iter().map(KindWanted::named).collect::<Vec<_>>().join(", ")
    }
}

impl KindWanted {
    /// Returns its name for messages.
    pub fn named(&self) -> String {
        format!("{}{}", self.kind, if self.spot { " (spot)" } else { "" })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_starts_workers_is_told_of_its_kind_and_of_no_other() {
        let kind = |kind: &str, spot, wanted| KindWanted { kind: kind.into(), spot, wanted, ..KindWanted::default() };
        let one = GetScaleResponse { wanted: 3, ..GetScaleResponse::default() };
        assert_eq!(one.wanted_of(None).expect("one number"), Some(3));
        assert_eq!(GetScaleResponse::default().wanted_of(None).expect("one number"), None);
        let error = one.wanted_of(Some(("big", false))).expect_err("no kinds");
        assert!(error.get("hint").is_some_and(|hint| hint.contains("--offer")), "{error}");
        let kinds = vec![kind("big", false, Some(0)), kind("big", true, Some(2)), kind("new", false, None)];
        let many = GetScaleResponse { wanted: 3, kinds, ..GetScaleResponse::default() };
        let of = |name, spot| many.wanted_of(Some((name, spot))).expect("a kind");
        assert_eq!([of("big", false), of("big", true), of("new", false)], [Some(0), Some(2), None]);
        for wrong in [None, Some(("new", true)), Some(("small", false))] {
            let error = many.wanted_of(wrong).expect_err("no kind");
            assert!(error.get("hint").is_some_and(|hint| hint.contains("big, big (spot), new")), "{error}");
        }
    }
}
