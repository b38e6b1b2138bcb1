// Package observe makes what happens visible: metrics for Prometheus, the names of log
// attributes, and the event bus. It depends on neither stores nor pipelines: they report
// through its methods, so that nothing else in the code base depends on Prometheus.
//
//	reg := observe.NewRegistry()
//	metrics, err := observe.New(reg)
//	d, err := dispatch.New(s, dispatch.Config{Observer: metrics, …})
//	http.Handle("/metrics", observe.Handler(reg))
//
// A [Bus] carries events ([Envelope]) to consumers: metrics, log, audit, a board for
// people. It never delays the work, and counts every event that it could not deliver.
// Types of events are registered ([EventTypes]); docs/events.md has the table.
//
// A scrape reads figures from memory. It never queries a store.
package observe
