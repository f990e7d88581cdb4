//! The figures, and which are absent.

use maud::{Markup, PreEscaped, html};

use crate::Error;
use crate::plots::Section;

/// What measures clusters; a single phone is none.
const CLUSTERS: &str = "flashmob reproduce p1";

pub fn section(sections: &[Section]) -> Result<Markup, Error> {
    let mut numbers = 0..;
    let mut drawn = Vec::new();
    for section in sections.iter().filter(|s| !s.figures.is_empty()) {
        let mut figures = Vec::new();
        for (name, draw) in &section.figures {
            figures.push((name, draw(numbers.next().unwrap_or_default())?));
        }
        drawn.push((section, figures));
    }
    Ok(html! {
        div.parts {
            @for (section, figures) in &drawn {
                // As wide as its figures: small sections share a row.
                div.part style=(format!("--figures:{}", figures.len())) {
                    h3 { (section.heading) }
                    p.muted { (section.words) }
                    div.figures {
                        @for (name, figure) in figures {
                            figure {
                                h4 { (name) }
                                (PreEscaped(&figure.svg))
                                figcaption { (figure.caption) }
                            }
                        }
                    }
                }
            }
        }
        @if sections.iter().any(absent) {
            div.absent {
                p { "Not measured, and so not drawn:" }
                ul {
                    @for section in sections.iter().filter(|s| absent(s)) {
                        li { (section.heading) ": " code { (section.command) } }
                    }
                }
                @if sections.iter().any(|s| absent(s) && !s.command.starts_with(CLUSTERS)) { p.muted { "On a phone or tablet " code { "flashmob push reproduce" } " measures the figures of P1 (one device), P3, P4 and P5 that it can make without root." } }
            }
        }
    })
}

/// Not measured, with the command that measures it.
fn absent(section: &Section) -> bool {
    section.figures.is_empty() && !section.command.is_empty()
}
