//! Expressions of webhooks and policies, evaluated for one question.
//!
//! ```text
//! Question + objects ──▶ Evaluation ──Program, budget──▶ value | Failure
//! ```
//!
//! Variables are made once for a question. The variables of a policy are computed when an expression
//! names them, and their errors are those of the expressions that read them.
//!
//! BOUND: 10^6 units of cost for an expression, 2.5·10^6 for the conditions of one webhook or policy,
//! 10^7 for the expressions of a binding and one parameter.
//!
//! * `authorizer.rs`: rights as expressions ask about them; `conditions.rs`: match conditions;
//!   `filter.rs`: conditions of one object, for tools;
//!   `values.rs`: JSON as values.
//!
//! Upstream: `kubernetes/apiserver:pkg/admission/plugin/cel`, `pkg/apis/cel/config.go`.

mod authorizer;
mod conditions;
mod filter;
mod values;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use kube_cel::cel::{Context, ExecutionError, Value as CelValue};
use serde_json::Value;

pub(crate) use self::conditions::{Conditions, Verdict};
pub use self::filter::{ConditionFailure, InvalidCondition, ObjectCondition};
pub(crate) use self::values::to_json;
use super::request;
use super::{Objects, Question};
use crate::budget::Meter;
use crate::resource::ResourceInfo;
use crate::schema::cel::mend::VARIABLE;
use crate::schema::cel::meter::{self, COPIES, Purse};
use crate::schema::cel::paid;
use crate::schema::cel::program::{self, Program};

/// The budget of one expression.
const EXPRESSION: u64 = 1_000_000;
/// The budget of a binding and one parameter.
pub(crate) const BINDING: u64 = 10_000_000;
/// The budget of the conditions of one webhook or policy.
pub(crate) const CONDITIONS: u64 = 2_500_000;

/// An expression that has no value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Failure {
    /// An error, in upstream's words.
    Error(String),
    /// The budget of all expressions together is spent.
    OutOfBudget,
}

/// An expression of a webhook or a policy.
#[derive(Debug)]
pub(crate) struct Expression {
    pub(crate) text: String,
    pub(crate) program: Result<Program, String>,
}

/// A variable of a policy.
#[derive(Debug)]
pub(crate) struct Variable {
    pub(crate) name: String,
    pub(crate) expression: Expression,
}

type Computed = Result<CelValue, String>;

/// The variables and functions for one question.
pub(crate) struct Evaluation {
    context: Context<'static>,
    purse: Purse,
    /// The variables of the policy that were computed.
    computed: Arc<Mutex<BTreeMap<String, Computed>>>,
}

impl Evaluation {
    /// Makes the variables of a question. The objects are of the version of `resource`.
    pub(crate) fn new(
        question: &Question<'_>,
        resource: &ResourceInfo,
        objects: Objects<'_>,
    ) -> Self {
        let purse = Purse::default();
        let mut context = paid::context(&purse);
        let asked = Value::Object(request::facts(question, resource));
        let or_null = |value: Option<&Value>| value.map_or(CelValue::Null, values::of);
        context.add_variable_from_value("object", or_null(objects.object));
        context.add_variable_from_value("oldObject", or_null(objects.old));
        context.add_variable_from_value("request", values::of(&asked));
        let namespace = namespace(question);
        context.add_variable_from_value("namespaceObject", or_null(namespace.as_ref()));
        context.add_variable_from_value("params", CelValue::Null);
        authorizer::add(&mut context, question);
        let computed = Arc::<Mutex<BTreeMap<String, Computed>>>::default();
        let (known, payer) = (computed.clone(), purse.clone());
        context.add_function(VARIABLE, move |name: Arc<String>| {
            let known = known.lock().unwrap_or_else(PoisonError::into_inner);
            match known.get(name.as_str()) {
                Some(Ok(value)) => payer.pay_for(value, COPIES).map(|()| value.clone()),
                Some(Err(why)) => Err(ExecutionError::function_error(VARIABLE, why.clone())),
                None => Err(ExecutionError::NoSuchKey(name)),
            }
        });
        Self {
            context,
            purse,
            computed,
        }
    }

    /// Sets `params`, and forgets the variables of a policy.
    pub(crate) fn begin(&mut self, params: Option<&Value>) {
        let params = params.map_or(CelValue::Null, values::of);
        self.context.add_variable_from_value("params", params);
        let mut computed = self.computed.lock().unwrap_or_else(PoisonError::into_inner);
        computed.clear();
    }

    /// Runs an expression that may read these variables of a policy, and takes its cost from a
    /// budget.
    pub(crate) fn run(
        &self,
        expression: &Expression,
        variables: &[Variable],
        budget: &mut u64,
    ) -> Result<CelValue, Failure> {
        let text = expression.text.trim();
        let failed =
            |why: &str| Failure::Error(format!("expression '{text}' resulted in error: {why}"));
        let program = match &expression.program {
            Ok(program) => program,
            Err(why) => return Err(Failure::Error(format!("compilation error: {why}"))),
        };
        self.compose(program, variables, budget);
        let outcome = self.within(program, budget);
        if *budget == 0 {
            return Err(Failure::OutOfBudget);
        }
        outcome.map_err(|why| failed(&why))
    }

    /// Computes the variables that a program names, in the order of their declaration.
    fn compose(&self, program: &Program, variables: &[Variable], budget: &mut u64) {
        let mut wanted = program.composed.clone();
        let mut needed = Vec::new();
        // A variable reads only variables that were declared before it.
        for variable in variables.iter().rev() {
            if wanted.remove(&variable.name) {
                if let Ok(program) = &variable.expression.program {
                    wanted.extend(program.composed.iter().cloned());
                }
                needed.push(variable);
            }
        }
        for variable in needed.into_iter().rev() {
            let known = || self.computed.lock().unwrap_or_else(PoisonError::into_inner);
            if known().contains_key(&variable.name) {
                continue;
            }
            let value = match &variable.expression.program {
                Ok(program) => self.within(program, budget),
                Err(why) => Err(why.clone()),
            };
            let name = &variable.name;
            let value = value
                .map_err(|why| format!("composited variable {name:?} fails to evaluate: {why}"));
            known().insert(name.clone(), value);
        }
    }

    /// Runs a program within the budget of one expression.
    fn within(&self, program: &Program, budget: &mut u64) -> Computed {
        let share = EXPRESSION.min(*budget);
        self.purse.refill(share);
        let outcome = program.run(&self.context);
        let left = self.purse.refill(0);
        let is_over = matches!(&outcome, Err(error) if meter::is_out_of_budget(error));
        *budget -= if is_over { share } else { share - left };
        outcome.map_err(|error| program::words(&error))
    }
}

/// The namespace of a question, as it is stored.
fn namespace(question: &Question<'_>) -> Option<Value> {
    let name = question.namespace?;
    let state = question.state;
    let stored = state.store.get(state.store.shelf("namespaces"), name)?;
    let entries = state.registry.entries();
    let resource = entries.iter().find(|of| of.is_core("namespaces"))?;
    Some(resource.to_shown(stored.value(), &Meter::of_object()))
}
