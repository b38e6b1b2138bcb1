// Package program makes handlers of programs in any language: [Exec] starts one
// for every delivery, [Pipe] keeps some running and speaks with them in lines of
// JSON (package wire).
//
// Programs run in process groups of their own, so that a Ctrl-C at the terminal
// reaches Pawl alone, which then drains. They do not outlive it either: when it
// ends in whatever way, a [Launcher]'s guard kills what it had started.
package program
