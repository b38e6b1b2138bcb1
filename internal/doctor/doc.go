// Package doctor looks at a store, its topics and workers, and this machine, and
// says what needs attention and what to do about it. It changes nothing.
package doctor
