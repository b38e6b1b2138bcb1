// Package observe makes what happens visible: metrics for Prometheus and the
// names of log attributes. It knows words, not stores or pipelines: what it is
// told, it is told through methods, so that nothing else in the code base needs
// to know Prometheus.
//
//	reg := observe.NewRegistry()
//	metrics, err := observe.New(reg)
//	d, err := dispatch.New(s, dispatch.Config{Observer: metrics, …})
//	http.Handle("/metrics", observe.Handler(reg))
//
// A scrape reads numbers that are there. It asks no store anything.
package observe
