// Package handler has what handlers in other languages share. The handlers are in its
// subpackages:
//
//   - handler/exec starts a program for every delivery;
//   - handler/pipe keeps programs running and speaks with them in lines of JSON;
//   - handler/http posts deliveries to a web service.
//
// Programs run in process groups of their own, so that a Ctrl-C at the terminal reaches
// this process alone, which then drains. They do not outlive the process either:
// however it ends, the guard of a [Launcher] kills the programs.
package handler
