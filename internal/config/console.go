package config

import (
	"errors"
	"regexp"
)

// Console is the web console, which is served where the API is.
type Console struct {
	Enabled, ReadOnly bool
	Title, Color      string
	Stores            []ConsoleStore // by name
	Trace, Prometheus string
}

// ConsoleStore is a further store that a console shows.
type ConsoleStore struct{ Name, URL string }

var (
	colorForm = regexp.MustCompile(`^([a-z]+|#[0-9a-fA-F]{3}|#[0-9a-fA-F]{6})$`)
	shopForm  = regexp.MustCompile(`^[A-Za-z0-9-]+$`)
)

func consoleField(urlOfStore *shape) field {
	line := shape{kind: text, noun: "text"}
	return field{name: "console", doc: "The web console, which is served below `/console/` where the API is.",
		shape: shape{kind: object, fields: []field{
			{name: "enabled", doc: "Serve it.", def: "true", shape: shape{kind: boolean}},
			{name: "read_only", doc: "Hide every change, and refuse it.", def: "false", shape: shape{kind: boolean}},
			{name: "title", doc: "The name on every page.", defDoc: "Pawl", shape: line},
			{name: "color", doc: "The color on every page: a name or #rrggbb.", defDoc: "none",
				shape: shape{kind: text, noun: "color", check: func(s string) (why, hint string) {
					if s != "" && !colorForm.MatchString(s) {
						return "is no color", "such as teal or #0f766e"
					}
					return "", ""
				}}},
			{name: "stores", doc: "Further stores, by name, for the switch on every page.",
				shape: shape{kind: table, noun: "mapping by name",
					of: urlOfStore,
					checkKey: func(name string) error {
						if !shopForm.MatchString(name) {
							return errors.New("has something else than letters, digits and dashes")
						}
						return nil
					}}},
			{name: "trace", doc: "The address of a trace, with `{trace}` in place of its id, for a link.", defDoc: "none",
				shape: line},
			{name: "prometheus", doc: "The address of a Prometheus or dashboard, for a link beside charts.", defDoc: "none",
				shape: shape{kind: text, noun: nounURL, check: checkURL}},
		}}}
}

// bindConsole gives the values of console their types.
func bindConsole(n *node) Console {
	c := Console{Enabled: true}
	if n == nil {
		return c
	}
	c = Console{Enabled: get[bool](n, "enabled"), ReadOnly: get[bool](n, "read_only"), Title: get[string](n, "title"),
		Color: get[string](n, "color"), Trace: get[string](n, "trace"), Prometheus: get[string](n, "prometheus")}
	for name, url := range n.at("stores").inOrder() {
		c.Stores = append(c.Stores, ConsoleStore{name, url.text()})
	}
	return c
}
