//! Variables and what attributes become with them.

use std::collections::BTreeMap;
use std::sync::Arc;

use fsage_format::foreign::wml::{Assigned, Attribute, Operator, Value};

use super::distribution::{Distribution, Number, Shape};

/// What is wrong, and on which line of the script at hand.
pub(super) type Problem = (u32, String);

/// A value with nothing left to look up.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Plain {
    Int(i64),
    Real(f64),
    Bool(bool),
    Text(String),
    Drawn(Arc<Distribution>),
}

impl Plain {
    fn number(&self) -> Option<f64> {
        match self {
            Plain::Int(n) => Some(*n as f64),
            Plain::Real(n) => Some(*n),
            Plain::Bool(on) => Some(f64::from(u8::from(*on))),
            Plain::Text(_) | Plain::Drawn(_) => None,
        }
    }

    fn shown(&self) -> String {
        match self {
            Plain::Int(n) => format!("'{n}'"),
            Plain::Real(n) => format!("'{n}'"),
            Plain::Bool(on) => format!("'{on}'"),
            Plain::Text(text) => format!("'{}'", text.chars().take(60).collect::<String>()),
            Plain::Drawn(_) => "a random variable".to_owned(),
        }
    }
}

/// The variables of a script, or the local ones of a composite.
pub(super) type Scope = BTreeMap<String, Plain>;

/// The variables of a script. What a user gives replaces what the script sets, wherever it is set.
#[derive(Debug, Default)]
pub(super) struct Variables {
    values: Scope,
    given: Scope,
    /// Random variables of version 1.4, whose attributes may be set one by one.
    randvars: BTreeMap<String, Vec<Attribute>>,
}

impl Variables {
    /// No variables yet; `given` are the user's.
    pub(super) fn new(given: Scope) -> Self {
        Self {
            given,
            ..Self::default()
        }
    }

    /// Every name that the script has set so far.
    pub(super) fn names(&self) -> impl Iterator<Item = &str> {
        self.values.keys().map(String::as_str)
    }

    /// All variables with their values.
    pub(super) fn scope(&self) -> &Scope {
        &self.values
    }

    pub(super) fn set(&mut self, name: &str, value: &Assigned, line: u32) -> Result<(), Problem> {
        let plain = if let Some(given) = self.given.get(name) {
            given.clone()
        } else {
            match value {
                Assigned::Value(value) => self.plain(value, None, line)?,
                Assigned::Cvar(attributes) => self.cvar(attributes, line)?,
                Assigned::Randvar(attributes) => {
                    self.randvars.insert(name.to_owned(), attributes.clone());
                    self.randvar(attributes, line)?
                }
            }
        };
        self.values.insert(name.to_owned(), plain);
        Ok(())
    }

    /// Sets one attribute of a random variable.
    pub(super) fn set_attribute(
        &mut self,
        name: &str,
        attribute: &Attribute,
        line: u32,
    ) -> Result<(), Problem> {
        let mut attributes = self.randvars.remove(name).unwrap_or_default();
        attributes.retain(|a| a.name != attribute.name);
        attributes.push(attribute.clone());
        self.set(name, &Assigned::Randvar(attributes), line)
    }

    /// A value as it is now; local variables come first.
    pub(super) fn plain(
        &self,
        value: &Value,
        locals: Option<&Scope>,
        line: u32,
    ) -> Result<Plain, Problem> {
        match value {
            Value::Int(n) => Ok(Plain::Int(*n)),
            Value::Real(n) => Ok(Plain::Real(*n)),
            Value::Bool(on) => Ok(Plain::Bool(*on)),
            Value::Text(text) => Ok(Plain::Text(text.clone())),
            Value::Var(name) => locals
                .and_then(|scope| scope.get(name))
                .or_else(|| self.values.get(name))
                .cloned()
                .ok_or_else(|| (line, format!("variable '${name}' was never set"))),
            Value::Sum(first, rest) => self.sum(first, rest, locals, line),
            Value::Table(_) => Err((line, "a table stands only for randtable".to_owned())),
        }
    }

    fn sum(
        &self,
        first: &Value,
        rest: &[(Operator, Value)],
        locals: Option<&Scope>,
        line: u32,
    ) -> Result<Plain, Problem> {
        let operand = |value: &Value| {
            let plain = self.plain(value, locals, line)?;
            plain.number().ok_or_else(|| {
                (
                    line,
                    format!("{} is no number to calculate with", plain.shown()),
                )
            })
        };
        let mut total = operand(first)?;
        for (operator, value) in rest {
            let value = operand(value)?;
            total = match operator {
                Operator::Plus => total + value,
                Operator::Minus => total - value,
                Operator::Times => total * value,
                Operator::Over if value == 0.0 => {
                    return Err((line, "a division by 0".to_owned()));
                }
                Operator::Over => total / value,
            };
        }
        if total.fract() == 0.0 && total.abs() < 9e15 {
            Ok(Plain::Int(total as i64))
        } else if total.is_finite() {
            Ok(Plain::Real(total))
        } else {
            Err((line, "the calculated value is out of range".to_owned()))
        }
    }

    fn cvar(&self, attributes: &[Attribute], line: u32) -> Result<Plain, Problem> {
        let read = Attributes::new(attributes, self, None, line);
        let kind = read.required("type")?;
        let parameters = read.text("parameters")?.unwrap_or_default();
        let mut given: BTreeMap<&str, f64> = BTreeMap::new();
        for part in parameters
            .split(';')
            .map(str::trim)
            .filter(|p| !p.is_empty())
        {
            let pair = part.split_once(':');
            let parsed = pair.and_then(|(k, v)| Some((k.trim(), v.trim().parse().ok()?)));
            match parsed {
                Some((key, number)) if f64::is_finite(number) => given.insert(key, number),
                _ => return Err((line, format!("'{part}' is not PARAMETER:NUMBER"))),
            };
        }
        let (shape, right) = cvar_shape(&kind, &mut given).ok_or_else(|| {
            let text = format!(
                "unknown type '{kind}' of cvar, expected cvar-erlang, cvar-exponential, cvar-gamma, \
                 cvar-lognormal, cvar-normal, cvar-triangular, cvar-uniform or cvar-weibull"
            );
            (line, text)
        })?;
        if let Some(name) = given.keys().next() {
            return Err((line, format!("{kind} has no parameter '{name}'")));
        }
        if !right {
            return Err((
                line,
                format!("the parameters '{parameters}' of {kind} are out of range"),
            ));
        }
        Ok(Plain::Drawn(Arc::new(Distribution {
            shape,
            base: 0.0,
            min: read.real("min", 0.0)?,
            max: read.real("max", f64::INFINITY)?,
            round: read.real("round", 0.0)?,
        })))
    }

    /// Version 1.4: values from `min` on with a mean, a gamma in thousandths, or a table.
    fn randvar(&self, attributes: &[Attribute], line: u32) -> Result<Plain, Problem> {
        let read = Attributes::new(attributes, self, None, line);
        let min = read.real("min", 0.0)?;
        let round = read.real("round", 0.0)?;
        let above = (read.real("mean", min + 1.0)? - min).max(0.0);
        let gamma = read.real("gamma", 1500.0)? / 1000.0;
        let kind = read.text("type")?.unwrap_or_else(|| "gamma".to_owned());
        let mut base = 0.0;
        let shape = match kind.as_str() {
            "uniform" => Shape::Uniform {
                lower: min,
                upper: min + 2.0 * above,
            },
            "gamma" if gamma > 0.0 => {
                base = min;
                Shape::Gamma { mean: above, gamma }
            }
            "gamma" => Shape::Uniform {
                lower: min + above,
                upper: min + above,
            },
            "tabular" => Shape::Tabular(self.table(attributes, line)?),
            _ => {
                return Err((
                    line,
                    format!("unknown type '{kind}' of randvar, expected uniform, gamma or tabular"),
                ));
            }
        };
        Ok(Plain::Drawn(Arc::new(Distribution {
            shape,
            base,
            min,
            max: f64::INFINITY,
            round,
        })))
    }

    fn table(&self, attributes: &[Attribute], line: u32) -> Result<Vec<(f64, f64, f64)>, Problem> {
        let table = attributes.iter().find(|a| a.name == "randtable");
        // A table may be set after its type.
        let Some(Value::Table(rows)) = table.and_then(|a| a.value.as_ref()) else {
            return Ok(vec![(100.0, 0.0, 0.0)]);
        };
        let number = |value: &Value| {
            let plain = self.plain(value, None, line)?;
            plain
                .number()
                .filter(|n| *n >= 0.0)
                .ok_or_else(|| (line, format!("{} is no number of a table", plain.shown())))
        };
        let mut total = 0.0;
        let mut out = Vec::new();
        for [percent, low, high] in rows {
            let (percent, low, high) = (number(percent)?, number(low)?, number(high)?);
            if low > high {
                return Err((
                    line,
                    format!("a row of the table goes from {low} down to {high}"),
                ));
            }
            total += percent;
            out.push((total, low, high));
        }
        if (total - 100.0).abs() > 1e-9 {
            return Err((
                line,
                format!("the shares of the table add up to {total}, expected 100"),
            ));
        }
        Ok(out)
    }
}

/// The shape of a custom variable by the names and defaults of filebench's libraries, and whether its
/// parameters are in range; takes what it knows out of `given`.
fn cvar_shape(kind: &str, given: &mut BTreeMap<&str, f64>) -> Option<(Shape, bool)> {
    let mut take = |name: &str, default: f64| given.remove(name).unwrap_or(default);
    let base = kind
        .strip_prefix("cvar-")
        .or_else(|| kind.strip_prefix("rand-"))
        .unwrap_or(kind);
    Some(match base {
        "uniform" => {
            let (lower, upper) = (take("lower", 0.0), take("upper", 1.0));
            (Shape::Uniform { lower, upper }, lower <= upper)
        }
        "normal" => {
            let (mean, sigma) = (take("mean", 0.0), take("sigma", 1.0));
            (Shape::Normal { mean, sigma }, sigma >= 0.0)
        }
        "lognormal" => {
            let (shape, scale) = (take("shape", 1.0), take("scale", 1.0));
            (Shape::Lognormal { shape, scale }, shape >= 0.0)
        }
        "exponential" => {
            let mean = take("mean", 1.0);
            (Shape::Exponential { mean }, mean >= 0.0)
        }
        "erlang" => {
            let (shape, rate) = (take("shape", 1.0), take("rate", 1.0));
            let right = (1.0..=1000.0).contains(&shape) && rate > 0.0;
            (Shape::Erlang { shape, rate }, right)
        }
        "gamma" => {
            let (mean, gamma) = (take("mean", 4096.0), take("gamma", 1.5));
            (Shape::Gamma { mean, gamma }, gamma > 0.0 && mean >= 0.0)
        }
        "triangular" => {
            let (lower, upper) = (take("lower", 0.0), take("upper", 1.0));
            let mode = take("mode", 0.5);
            let right = lower <= mode && mode <= upper;
            (Shape::Triangular { lower, upper, mode }, right)
        }
        "weibull" => {
            let (shape, scale) = (take("shape", 1.0), take("scale", 1.0));
            (Shape::Weibull { shape, scale }, shape > 0.0)
        }
        _ => return None,
    })
}

/// The attributes of one entity, looked up.
pub(super) struct Attributes<'a> {
    list: &'a [Attribute],
    variables: &'a Variables,
    locals: Option<&'a Scope>,
    line: u32,
}

impl<'a> Attributes<'a> {
    /// Those of an entity that begins on `line`.
    pub(super) fn new(
        list: &'a [Attribute],
        variables: &'a Variables,
        locals: Option<&'a Scope>,
        line: u32,
    ) -> Self {
        Self {
            list,
            variables,
            locals,
            line,
        }
    }

    fn find(&self, name: &str) -> Option<&'a Attribute> {
        self.list.iter().find(|a| a.name == name)
    }

    /// Its value; `None` if it is not there, true if it stands alone.
    pub(super) fn plain(&self, name: &str) -> Result<Option<(Plain, u32)>, Problem> {
        let Some(attribute) = self.find(name) else {
            return Ok(None);
        };
        let plain = match &attribute.value {
            None => Plain::Bool(true),
            Some(value) => self.variables.plain(value, self.locals, attribute.line)?,
        };
        Ok(Some((plain, attribute.line)))
    }

    pub(super) fn number(&self, name: &str, default: f64) -> Result<Number, Problem> {
        match self.plain(name)? {
            None => Ok(Number::Fixed(default)),
            Some((Plain::Drawn(distribution), _)) => Ok(Number::Drawn(distribution)),
            Some((plain, line)) => match plain.number() {
                Some(number) if number >= 0.0 => Ok(Number::Fixed(number)),
                _ => {
                    let shown = plain.shown();
                    Err((
                        line,
                        format!("{shown} for '{name}', expected a number from 0 on"),
                    ))
                }
            },
        }
    }

    pub(super) fn real(&self, name: &str, default: f64) -> Result<f64, Problem> {
        match self.number(name, default)? {
            Number::Fixed(number) => Ok(number),
            Number::Drawn(_) => Err((
                self.find(name).map_or(self.line, |a| a.line),
                format!("a random variable for '{name}', expected one number"),
            )),
        }
    }

    /// A whole number from `low` to `high`.
    pub(super) fn count(
        &self,
        name: &str,
        default: u64,
        (low, high): (u64, u64),
    ) -> Result<u64, Problem> {
        let number = self.real(name, default as f64)?;
        if number.fract() == 0.0 && (low as f64..=high as f64).contains(&number) {
            return Ok(number as u64);
        }
        Err((
            self.find(name).map_or(self.line, |a| a.line),
            format!("{number} for '{name}', expected a whole number from {low} to {high}"),
        ))
    }

    pub(super) fn flag(&self, name: &str) -> Result<bool, Problem> {
        match self.plain(name)? {
            None => Ok(false),
            Some((plain, line)) => match plain.number() {
                Some(number) => Ok(number != 0.0),
                None => Err((
                    line,
                    format!("{} for '{name}', expected true or false", plain.shown()),
                )),
            },
        }
    }

    pub(super) fn text(&self, name: &str) -> Result<Option<String>, Problem> {
        match self.plain(name)? {
            None => Ok(None),
            Some((Plain::Text(text), _)) => Ok(Some(text)),
            Some((Plain::Int(n), _)) => Ok(Some(n.to_string())),
            Some((plain, line)) => {
                let shown = plain.shown();
                Err((line, format!("{shown} for '{name}', expected a name")))
            }
        }
    }

    pub(super) fn required(&self, name: &str) -> Result<String, Problem> {
        self.text(name)?
            .filter(|text| !text.is_empty())
            .ok_or_else(|| (self.line, format!("the attribute '{name}' is missing")))
    }
}
