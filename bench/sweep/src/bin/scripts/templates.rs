//! Templates: one environment for all.

use curtail_sweep::inside::{compute, ticket};
use curtail_sweep::{Outcome, must, text};
use minijinja::value::{Object, Value};
use minijinja::{Environment, context};
use serde::Serialize;
use std::fmt;
use std::sync::{Arc, LazyLock};
use tera::Tera;

/// A value of ours that takes its time to be printed.
#[derive(Debug)]
struct Slow(u64);

impl Object for Slow {
    fn render(self: &Arc<Self>, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        compute();
        write!(f, "<{}>", self.0)
    }
}

static ENVIRONMENT: LazyLock<Result<Environment<'static>, String>> = LazyLock::new(|| {
    let mut environment = Environment::new();
    environment.add_filter("doubled", |n: u64| {
        compute();
        n * 2
    });
    let page = "{% macro cell(row) %}{{ row.name|upper }}={{ row.count|doubled }}{{ row.slow }}\
                {% endmacro %}{% for row in rows if row.count % 2 == 0 %}{{ loop.index }}:\
                {{ cell(row) }};{% else %}none{% endfor %}{{ rows|length }} {{ own }}";
    environment.add_template("page", page).map_err(text)?;
    Ok(environment)
});

pub fn minijinja() -> Outcome {
    let environment = ENVIRONMENT.as_ref().map_err(Clone::clone)?;
    let row = |n: u64| {
        context! { name => format!("row {n}"), count => n, slow => Value::from_object(Slow(n)) }
    };
    let (rows, own) = ((0..12).map(row).collect::<Vec<_>>(), ticket());
    let page = environment.get_template("page").map_err(text)?;
    let rendered = page.render(context! { rows, own }).map_err(text)?;
    let own = format!(" {own}");
    let rest = rendered.strip_suffix(&own).ok_or_else(|| format!("{rendered} is not for{own}"))?;
    let bad = environment.render_str("{{ 1 + }}", ());
    must!(bad.is_err(), "a bad template was rendered");
    Ok(rest.to_owned())
}

static TERA: LazyLock<Result<Tera, String>> = LazyLock::new(|| {
    let mut tera = Tera::default();
    let base = "[{% block body %}none{% endblock %}]";
    let page = "{% extends \"base\" %}{% block body %}{% for row in rows %}{% if loop.index > 2 %}\
                {{ loop.index }}:{{ row.name | upper }}={{ row.count * 2 }};{% endif %}{% endfor %}\
                {% set sum = rows | length %}{{ sum + 1 }} {{ own }}{% endblock %}";
    tera.add_raw_templates([("base", base), ("page", page)]).map_err(text)?;
    Ok(tera)
});

#[derive(Serialize)]
struct Plain {
    name: String,
    count: u64,
}

pub fn tera() -> Outcome {
    let tera = TERA.as_ref().map_err(Clone::clone)?;
    let row = |n| Plain { name: format!("row {n}"), count: n };
    let own = ticket();
    let mut context = tera::Context::new();
    context.insert("rows", &(0..12).map(row).collect::<Vec<_>>());
    context.insert("own", &own);
    let rendered = tera.render("page", &context).map_err(|error| format!("{error:?}"))?;
    let own = format!(" {own}]");
    let rest = rendered.strip_suffix(&own).ok_or_else(|| format!("{rendered} is not for{own}"))?;
    must!(tera.render("nowhere", &context).is_err(), "a missing template was rendered");
    Ok(rest.to_owned())
}
