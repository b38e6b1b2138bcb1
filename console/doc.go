// Package console is the web console of a store: what happens, why, and what to do about it. It is an http.Handler
// that renders what package api answers and sends it what a person asks for, so that whatever it shows or does,
// programs can see and do as well, with the same roles, checks and audit:
//
//	c, err := console.New(console.Config{Store: s, BasePath: "/console", Auth: whoAsks})
//	mux.Handle("/console/", c)
//
// Pages work without JavaScript; with it they are live. Nothing is fetched from elsewhere.
package console
