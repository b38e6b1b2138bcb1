// Package handler has what handlers in other languages share. The handlers
// themselves are in its folders:
//
//   - handler/exec starts a program for every delivery;
//   - handler/pipe keeps programs running and speaks with them in lines of JSON;
//   - handler/http posts deliveries to a web service.
//
// Programs run in process groups of their own, so that a Ctrl-C at the terminal
// reaches this process alone, which then drains. They do not outlive it either:
// however it ends, the guard of a [Launcher] kills what it had started.
package handler
