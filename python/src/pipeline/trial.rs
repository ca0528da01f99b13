//! The trial of a function on the first samples.

use forebay_core::{Error, Seed};
use forebay_exec::Randomness;
use forebay_plan::Function;
use pyo3::prelude::*;

use super::{Pipeline, attach};
use crate::errors::{guard, interruptible, raise};
use crate::functions::PyFunctions;

/// Samples for the trial of a function: enough to see that shapes differ.
const PROBE_ROWS: usize = 4;

impl Pipeline {
    /// Returns the columns that a function returns, found by calling it on the first samples.
    pub(super) fn try_function(
        &self,
        py: Python<'_>,
        function: &str,
        pickle: &[u8],
        makes_rows: bool,
    ) -> PyResult<String> {
        let (blobs, json) = attach(&self.blobs, function, Some(pickle));
        let function: Function =
            serde_json::from_str(&json).map_err(|e| raise(py, &Error::internal(format!("not a function: {e}"))))?;
        let function = Function { batched: function.batched || self.graph.batch().is_some(), ..function };
        let (input, of) = interruptible(py, |poll| self.first_rows(PROBE_ROWS, poll))?;
        let fields = guard(py, || {
            let Some(input) = input else {
                return Err(Error::invalid("the pipeline gives no sample to try the function on")
                    .hint("give schema={\"column\": \"dtype\", ...}"));
            };
            let input = match &function.reads {
                Some(columns) => input.project(columns)?,
                None => input,
            };
            let random = self.graph.nodes().iter().filter(|n| n.op.is_random()).count() as u64;
            let randomness = function.with_rng.then_some(Randomness { seed: Seed(0), random });
            let found = PyFunctions::default().fields(&function, &blobs, &input, randomness, makes_rows);
            let found = found.map_err(|e| of.locate(e))?;
            if makes_rows && found.is_empty() {
                let message = format!("{} made no row of the first {} samples", function.name, input.num_rows());
                return Err(Error::invalid(message).hint("give schema={\"column\": \"dtype\", ...}"));
            }
            Ok(found)
        })?;
        Ok(serde_json::to_string(&fields).unwrap_or_default())
    }
}
