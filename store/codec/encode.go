package codec

import (
	"maps"

	"github.com/pawl-dev/pawl"
)

// encoder is one way to encode, made from a [Config].
type encoder struct {
	compress string // step, or ""
	min      int
	msgpack  bool
	offload  int // 0: never
	blobs    *folder
	shrink   *compressors
	greedy   bool // encode also where nothing is saved: for tests
}

// draft is an encoded message of which the blob is not written yet.
type draft struct {
	message pawl.Message
	blob    *ref   // nil: there is none
	content []byte // of the blob
}

// encode returns m as it is to be stored; m itself stays as it is. What no store
// takes is returned unchanged, so that the store below refuses it by the words of
// the contract. The error is for a message that the codec alone cannot take.
func (e *encoder) encode(m pawl.Message) (draft, error) {
	folded := foldable(m.Headers)
	if m.Validate() != nil {
		return draft{message: m}, nil
	}
	if folded == nil {
		if d, ok := e.try(&m, nil); ok {
			return d, nil
		}
		return draft{message: m}, nil
	}
	if d, ok := e.try(&m, folded); ok {
		return d, nil
	}
	if d, ok := e.try(&m, m.Headers); ok { // then they have room
		return d, nil
	}
	return draft{}, pawl.Invalid("headers",
		"named %s and %s-… are the codec's; they go into the body, which is too long for that", Header, Header)
}

// try encodes m with some of its headers folded. It tells whether the result is
// worth it, and within the limits.
func (e *encoder) try(m *pawl.Message, folded map[string]string) (draft, bool) {
	content, length := fold(folded, m.Body)
	r := recipe{length: len(content), fold: length}
	content = e.squeeze(&r, content)
	d := draft{message: *m}
	if d.message.Body = content; e.offload > 0 && len(content) > e.offload {
		blob := e.blobs.refer(content)
		r.blob, d.blob, d.content, d.message.Body = &blob, &blob, content, nil
	}
	if folded == nil && r.blob == nil && !r.msgpack && r.compress == "" {
		return draft{}, false
	}
	headers := make(map[string]string, len(m.Headers)+1)
	for k, v := range m.Headers {
		if _, gone := folded[k]; !gone {
			headers[k] = v
		}
	}
	headers[Header] = r.String()
	d.message.Headers = headers
	if folded == nil && !e.greedy && d.message.Size() >= m.Size() {
		return draft{}, false
	}
	return d, d.message.Validate() == nil
}

// squeeze takes the steps that make content shorter.
func (e *encoder) squeeze(r *recipe, content []byte) []byte {
	if e.msgpack && r.fold == 0 {
		if b := toMsgpack(content); b != nil {
			r.msgpack, r.middle, content = true, len(b), b
		}
	}
	if e.compress != "" && len(content) >= e.min {
		if b := e.shrink.shrink(e.compress, content); b != nil && (len(b) < len(content) || e.greedy) {
			r.compress, content = e.compress, b
		}
	}
	return content
}

// inline is d, which has a blob, with that in the message; false where the limits
// forbid it.
func (d *draft) inline() (pawl.Message, bool) {
	m := d.message
	r, err := parseRecipe(m.Headers[Header])
	if err != nil {
		return m, false
	}
	r.blob = nil
	m.Headers, m.Body = maps.Clone(m.Headers), d.content
	m.Headers[Header] = r.String()
	return m, m.Validate() == nil
}
