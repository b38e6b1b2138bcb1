package mirror

import (
	"bytes"
	"maps"

	"github.com/pawl-dev/pawl"
)

// CopyHeader is the header by which a copy is told apart from an original. Its value is the
// id of the message, so that a message to which headers were passed on is no copy.
const CopyHeader = "pawl-copy"

// IsCopy reports whether a message is a copy that a mirror made.
func IsCopy(m *pawl.Message) bool { return m.ID != "" && m.Headers[CopyHeader] == m.ID }

// copyOf is the copy of a message that was stored under an id. It shares nothing with it.
func copyOf(m pawl.Message, id string) pawl.Message {
	m.ID, m.Key, m.Body, m.Headers = id, bytes.Clone(m.Key), bytes.Clone(m.Body), maps.Clone(m.Headers)
	if m.Headers == nil {
		m.Headers = map[string]string{}
	}
	m.Headers[CopyHeader] = id
	return m
}
