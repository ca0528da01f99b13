//! The parameters of a request.

use forebay_core::{Error, Result};

use crate::model::Page;

/// The most events of an answer, and by default.
const EVENTS_MAX: usize = 1000;
const EVENTS: usize = 200;
/// The most characters of a search.
const SEARCH_CHARS_MAX: usize = 200;

/// The content of a live stream.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum View {
    #[default]
    Overview,
    Workers,
    Job,
    Events,
}

/// The parameters of a request. A parameter that no path uses is refused.
#[derive(Debug, Default)]
pub(super) struct Query {
    pub(super) page: Page,
    pub(super) name: String,
    pub(super) tenant: Option<String>,
    pub(super) view: View,
    /// The text that events must contain, in lower case, and the most events of the answer.
    pub(super) search: String,
    pub(super) events: usize,
}

impl Query {
    /// Parses the part of a url after `?`.
    ///
    /// # Errors
    /// Invalid for a parameter that does not exist, or a value that it cannot have.
    pub(super) fn parse(text: &str) -> Result<Self> {
        let mut query = Self { events: EVENTS, ..Self::default() };
        for (name, value) in url::form_urlencoded::parse(text.as_bytes()) {
            if name == "search" {
                query.search = value.chars().take(SEARCH_CHARS_MAX).collect::<String>().to_lowercase();
            }
            match &*name {
                "name" => query.name = value.into_owned(),
                "tenant" => query.tenant = Some(value.into_owned()),
                "most" => {
                    let most = value.parse().ok().filter(|most| (1..=EVENTS_MAX).contains(most));
                    let wrong = || Error::invalid("most is no number of events").hint("use 1 to 1000");
                    query.events = most.ok_or_else(wrong)?;
                }
                "view" => {
                    query.view = match &*value {
                        "overview" => View::Overview,
                        "workers" => View::Workers,
                        "job" => View::Job,
                        "events" => View::Events,
                        _ => return Err(Error::invalid("there is no such view").hint("overview, workers, job, events")),
                    }
                }
                _ if query.page.set(&name, &value)? => {}
                _ => {
                    let name: String = name.chars().take(40).collect();
                    return Err(
                        Error::invalid(format!("there is no parameter {name:?}")).hint("see /api/v1/openapi.json")
                    );
                }
            }
        }
        Ok(query)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_are_decoded_and_unknown_ones_are_refused() {
        let query = Query::parse("name=%3Cscript%3E+a%2Fb&tenant=&limit=7&view=job&search=ABC").expect("valid");
        assert_eq!((&*query.name, query.tenant.as_deref(), query.page.limit), ("<script> a/b", Some(""), 7));
        assert_eq!((query.view, &*query.search), (View::Job, "abc"));
        // A name that is not UTF-8 becomes a text that is the name of no job.
        assert_eq!(Query::parse("name=%FF%FE").expect("valid").name, "\u{fffd}\u{fffd}");
        for wrong in ["limit=0", "limit=201", "limit=-1", "offset=x", "sort=size", "most=0", "view=x", "token=a", "x"] {
            assert!(Query::parse(wrong).is_err(), "{wrong}");
        }
    }
}
