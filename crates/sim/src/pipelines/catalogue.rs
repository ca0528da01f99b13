//! The pipelines that simulated jobs run.

use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;

use crate::pipelines::pipeline::Pipeline;

/// All pipelines, each made on first use.
#[derive(Default)]
pub(crate) struct Catalogue(RefCell<HashMap<usize, Rc<Pipeline>>>);

impl Catalogue {
    pub(crate) fn get(&self, number: usize) -> Rc<Pipeline> {
        let made =
            || Rc::new(Pipeline::new(number).unwrap_or_else(|e| panic!("pipeline {number} of the simulation: {e}")));
        self.0.borrow_mut().entry(number).or_insert_with(made).clone()
    }
}
