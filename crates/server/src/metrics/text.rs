//! Prometheus' text format, version 0.0.4: families of samples, each with its help text.

use std::fmt::Write;

/// Families, one after the other.
#[derive(Debug, Default)]
pub(super) struct Exposition(String);

/// The family that was begun last.
pub(super) struct Family<'a> {
    text: &'a mut String,
    name: &'static str,
}

/// A figure that can be written.
pub(super) trait Figure {
    fn write(self, text: &mut String);
}

macro_rules! figure {
    ($($of:ty),*) => { $(impl Figure for $of {
        fn write(self, text: &mut String) {
            // Writing to a string cannot fail.
            let _ = write!(text, "{self}");
        }
    })* };
}

figure!(u32, u64, usize, i32, f64);

impl Figure for bool {
    fn write(self, text: &mut String) {
        u32::from(self).write(text);
    }
}

impl Figure for std::time::Duration {
    fn write(self, text: &mut String) {
        self.as_secs_f64().write(text);
    }
}

impl Exposition {
    /// Begins a gauge.
    pub(super) fn gauge(&mut self, name: &'static str, help: &str) -> Family<'_> {
        self.family(name, "gauge", help)
    }

    /// Begins a counter, whose name ends with `_total`.
    pub(super) fn counter(&mut self, name: &'static str, help: &str) -> Family<'_> {
        debug_assert!(name.ends_with("_total"), "{name}");
        self.family(name, "counter", help)
    }

    /// `help` has neither backslashes nor ends of lines.
    fn family(&mut self, name: &'static str, kind: &str, help: &str) -> Family<'_> {
        let _ = write!(self.0, "# HELP {name} {help}\n# TYPE {name} {kind}\n");
        Family { text: &mut self.0, name }
    }
}

impl From<Exposition> for String {
    fn from(exposition: Exposition) -> Self {
        exposition.0
    }
}

impl Family<'_> {
    /// Writes the only sample.
    pub(super) fn is(&mut self, value: impl Figure) {
        self.with(&[], value);
    }

    /// Writes one of its samples.
    pub(super) fn with(&mut self, labels: &[(&str, &str)], value: impl Figure) -> &mut Self {
        self.text.push_str(self.name);
        for (i, (name, label)) in labels.iter().enumerate() {
            let label = label.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
            let _ = write!(self.text, "{}{name}=\"{label}\"", if i == 0 { '{' } else { ',' });
        }
        self.text.push_str(if labels.is_empty() { " " } else { "} " });
        value.write(self.text);
        self.text.push('\n');
        self
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn families_are_written_as_prometheus_reads_them() {
        let mut text = Exposition::default();
        text.gauge("a_seconds", "How long.").is(Duration::from_millis(1500));
        text.counter("b_total", "How often.").with(&[("x", "1"), ("y", "a\"b\\c\nd")], 7u64).with(&[("x", "2")], true);
        let written = "# HELP a_seconds How long.\n# TYPE a_seconds gauge\na_seconds 1.5\n\
                       # HELP b_total How often.\n# TYPE b_total counter\n\
                       b_total{x=\"1\",y=\"a\\\"b\\\\c\\nd\"} 7\nb_total{x=\"2\"} 1\n";
        assert_eq!(String::from(text), written);
    }
}
