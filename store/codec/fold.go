package codec

import (
	"encoding/json"
	"maps"

	"github.com/pawl-dev/pawl"
)

// Headers that cannot be headers in the store are folded into the body: they
// stand before it, as a JSON object. These are a user's own with a name that the
// codec keeps for itself and, where limits leave no room, any.

// foldable returns the headers that have to be folded whatever the limits are.
func foldable(headers map[string]string) map[string]string {
	var folded map[string]string
	for k, v := range headers {
		if reserved(k) {
			if folded == nil {
				folded = map[string]string{}
			}
			folded[k] = v
		}
	}
	return folded
}

// fold returns content that begins with headers, and how long these are.
func fold(headers map[string]string, body []byte) (content []byte, length int) {
	if len(headers) == 0 {
		return body, 0
	}
	b, err := json.Marshal(headers)
	if err != nil {
		return body, 0 // cannot be: strings
	}
	return append(b[:len(b):len(b)], body...), len(b)
}

// unfold puts folded headers back.
func unfold(m *pawl.Message, folded []byte) error {
	if len(folded) == 0 {
		return nil
	}
	var headers map[string]string
	if err := json.Unmarshal(folded, &headers); err != nil {
		return damaged("folded headers: %w", err)
	}
	if m.Headers == nil {
		m.Headers = map[string]string{}
	}
	maps.Copy(m.Headers, headers)
	return nil
}
