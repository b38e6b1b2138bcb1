package pipeline

import "time"

// Text returns a Text, Choice or URL; empty if it is not stated.
func (s Section) Text(name string) string { return value[string](s, name) }

// Int returns an Int or Size.
func (s Section) Int(name string) int64 { return value[int64](s, name) }

// Number returns a Number or Rate.
func (s Section) Number(name string) float64 { return value[float64](s, name) }

// Bool returns a Bool.
func (s Section) Bool(name string) bool { return value[bool](s, name) }

// Duration returns a Duration.
func (s Section) Duration(name string) time.Duration { return value[time.Duration](s, name) }

// Time returns a Moment; zero if it is not stated.
func (s Section) Time(name string) time.Time { return value[time.Time](s, name) }

// Texts returns a list of texts.
func (s Section) Texts(name string) []string { return value[[]string](s, name) }

// Section returns an Object. One that is not stated has the defaults of its keys.
func (s Section) Section(name string) Section { return value[Section](s, name) }

// Sections returns a Table of objects, by name.
func (s Section) Sections(name string) map[string]Section { return value[map[string]Section](s, name) }

// Table returns a Table of texts, by name.
func (s Section) Table(name string) map[string]string { return value[map[string]string](s, name) }

// List returns a List of objects.
func (s Section) List(name string) []Section { return value[[]Section](s, name) }
