//! The figures, and which are absent.

use maud::{Markup, PreEscaped, html};

use crate::plots::Section;

pub fn section(sections: &[Section]) -> Markup {
    html! {
        div.parts {
            @for section in sections.iter().filter(|s| !s.figures.is_empty()) {
                // As wide as its figures: small sections share a row.
                div.part style=(format!("--figures:{}", section.figures.len())) {
                    h3 { (section.heading) }
                    p.muted { (section.words) }
                    div.figures {
                        @for (name, figure) in &section.figures {
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
            }
        }
    }
}

/// Not measured, though a claim rests on it.
fn absent(section: &Section) -> bool {
    section.figures.is_empty() && !section.command.is_empty()
}
