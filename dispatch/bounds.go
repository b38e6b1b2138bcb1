package dispatch

import (
	"maps"

	"github.com/pawl-dev/pawl"
)

// binding are the headers of a message by which something is decided once its handler is done with it.
var binding = [...]string{pawl.HeaderRetryFor, pawl.HeaderAttempts, pawl.HeaderTimeout}

// boundsOf returns these headers of a message; nil if it has none. They are kept beside the message: its map belongs to
// the handler.
func boundsOf(m *pawl.Message) (bounds map[string]string) {
	if len(m.Headers) == 0 {
		return nil
	}
	for _, name := range binding {
		if v, ok := m.Headers[name]; ok {
			if bounds == nil {
				bounds = map[string]string{}
			}
			bounds[name] = v
		}
	}
	return bounds
}

// rebind takes back what a handler did to these headers.
func rebind(m *pawl.Message, bounds map[string]string) {
	if len(m.Headers) == 0 && len(bounds) == 0 || maps.Equal(boundsOf(m), bounds) {
		return
	}
	headers := maps.Clone(m.Headers)
	if headers == nil {
		headers = map[string]string{}
	}
	for _, name := range binding {
		delete(headers, name)
	}
	maps.Copy(headers, bounds)
	m.Headers = headers
}
