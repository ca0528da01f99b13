//! Worker types of a simulation: their offer, and how they behave.

use std::str::FromStr;

use forebay_policy_lab::simulate::Kind;

use super::time;

/// An offer and how its workers behave; options of the command fill in the rest.
#[derive(Debug, Clone)]
pub(crate) struct Imaginable {
    kind: Kind,
    startup: Option<f64>,
    lasts: Option<f64>,
}

impl Imaginable {
    /// Returns the kind. `startup` and `lasts` are the defaults, in seconds, of a kind without these values.
    pub(crate) fn kind(&self, startup: f64, lasts: Option<f64>) -> Kind {
        Kind { startup: self.startup.unwrap_or(startup), lost_every: self.lasts.or(lasts), ..self.kind.clone() }
    }
}

impl FromStr for Imaginable {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (mut offer, mut more) = (Vec::new(), Vec::new());
        for part in text.split(',') {
            match part.trim().split_once('=') {
                Some((key @ ("pace" | "comes" | "startup" | "lasts" | "away"), value)) => more.push((key, value)),
                _ => offer.push(part),
            }
        }
        let kind = Kind::new(offer.join(",").parse().map_err(|e: forebay_core::Error| e.to_string())?);
        let mut made = Self { kind, startup: None, lasts: None };
        for (at, (key, value)) in more.iter().enumerate() {
            if more[..at].iter().any(|(other, _)| other == key) {
                return Err(format!("{key} is given twice"));
            }
            made.set(key, value)?;
        }
        Ok(made)
    }
}

impl Imaginable {
    fn set(&mut self, key: &str, value: &str) -> Result<(), String> {
        let wrong = |what: &str| format!("{key}={value}: {what}");
        match key {
            "pace" => self.kind.pace = value.parse().map_err(|_| wrong("write a number, as 0.8"))?,
            "comes" => self.kind.comes = value.parse().map_err(|_| wrong("write how many"))?,
            "startup" => self.startup = Some(time(value)?),
            "lasts" => self.lasts = Some(time(value)?),
            _ => {
                let (from, to) = value.split_once(':').ok_or_else(|| wrong("write FROM:TO, as 20m:1h"))?;
                self.kind.away = Some((time(from)?, time(to)?));
            }
        }
        Ok(())
    }
}
