// Package observe makes what happens visible: metrics for Prometheus, the names
// of log attributes, and the event bus. It knows words, not stores or pipelines: what it is
// told, it is told through methods, so that nothing else in the code base needs
// to know Prometheus.
//
//	reg := observe.NewRegistry()
//	metrics, err := observe.New(reg)
//	d, err := dispatch.New(s, dispatch.Config{Observer: metrics, …})
//	http.Handle("/metrics", observe.Handler(reg))
//
// A [Bus] carries events ([Envelope]) to consumers: metrics, log, audit, a board
// for people. It never makes the work wait, and counts every event that it could
// not deliver. Types of events are registered ([EventTypes]); docs/events.md has
// the table.
//
// A scrape reads numbers that are there. It asks no store anything.
package observe
