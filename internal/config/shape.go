package config

import (
	"slices"
	"strings"
	"time"

	"github.com/pawl-dev/pawl/pipeline"
)

// kind is what a value of the file is.
type kind uint8

const (
	text kind = iota
	integer
	boolean
	duration
	rate
	choice
	object // keys that the format names
	table  // keys that the user names
	list
	number64 // a number with a fraction
	size     // bytes
)

// shape says what a value is, and what it may be.
type shape struct {
	kind    kind
	fields  []field  // of an object
	of      *shape   // of the values of a table, the items of a list
	choices []string // of a choice

	min, max  int64                           // of an integer; of a duration, in nanoseconds
	check     func(string) (why, hint string) // of a text; why is empty if it is good
	checkKey  func(string) error              // of the keys of a table
	secret    bool                            // never shown at all
	sensitive bool                            // what comes from elsewhere is a secret to logs, too
	raw       bool                            // ${…} is not ours: a shell reads it
	filled    bool                            // an object whose defaults hold although it is not stated
	// variants are the shapes of an object by the value of its key kind; described is what a pipeline's fields say.
	variants  map[string]*shape
	described []pipeline.Field
	short     string // the key of an object that a value in its place is the value of
	by        string // the key of an object by whose value the other keys go
	noun      string // what the value is, for documents
}

// field is a key of an object.
type field struct {
	name  string
	doc   string
	shape shape
	// def is the default as one would write it; fill makes one of what else is
	// stated, and defDoc says which.
	def    string
	fill   func(parent *node) string
	defDoc string
	env    string   // a variable that goes before the file
	flag   string   // a flag of pawl up that goes before both
	live   bool     // a reload applies it
	liveBy []string // with these handlers only; nil is all
	with   []string // the values of by that it goes with, such as handlers; nil is all
	must   bool     // it has to be there, with the values that it goes with
	later  bool     // it is planned: not in this version
}

func (s *shape) field(name string) *field {
	for i := range s.fields {
		if s.fields[i].name == name {
			return &s.fields[i]
		}
	}
	return nil
}

// goesWith reports whether the field has a meaning for a handler, or whatever the shape goes by.
func (f *field) goesWith(value string) bool {
	return f.with == nil || slices.Contains(f.with, value)
}

// isLive reports whether a reload applies the field with a handler.
func (f *field) isLive(handler string) bool {
	return f.live && (f.liveBy == nil || slices.Contains(f.liveBy, handler))
}

func span(least, most time.Duration) shape {
	return shape{kind: duration, min: int64(least), max: int64(most)}
}

func whole(least, most int64) shape { return shape{kind: integer, min: least, max: most} }

func oneOf(choices ...string) shape { return shape{kind: choice, choices: choices} }

// what names the kind of value in words, for documents.
func (s *shape) what() string {
	if s.noun != "" {
		return s.noun
	}
	switch s.kind {
	case integer:
		return "whole number"
	case boolean:
		return "true or false"
	case duration:
		return "duration"
	case rate:
		return "rate"
	case number64:
		return "number"
	case size:
		return "size"
	case choice:
		return strings.Join(s.choices, ", ")
	case object, table:
		return "mapping"
	case list:
		return "list"
	default:
		return "text"
	}
}
