package console

import "slices"

// page is a page of the console, or what a form of it does.
type page struct {
	path   string // below that of the store, as patterns of http.ServeMux: /topics/{topic}
	method string // empty: GET
	file   string // of the template, without .html; it defines "main"
	nav    string // name in the navigation, in English; empty: it is not there
	key    string // the letter that goes there after g
	show   func(*view) (any, error)
}

// pages are all of them, in the order of the navigation.
func pages() []page {
	return slices.Concat(overviewPages(), deadPages(), topicPages(), messagePages(), operationPages(),
		auditPages(), workerPages(), policyPages(), schedulePages(), statePages(), pipelinePages(), doctorPages(),
		runbookPages(), commandPages())
}
