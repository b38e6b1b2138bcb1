package codec

import (
	"maps"

	"github.com/pawl-dev/pawl"
)

// encoder is one way to encode, made from a [Config].
type encoder struct {
	compress bool
	min      int
	offload  int // 0: never
	blobs    *folder
	shrink   *compressor
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
// the contract. The error is for a message that the codec alone does not take.
func (e *encoder) encode(m pawl.Message) (draft, error) {
	if m.Validate() == nil {
		if err := refuseReserved(m.Headers); err != nil {
			return draft{}, err
		}
		if d, ok := e.try(&m); ok {
			return d, nil
		}
	}
	return draft{message: m}, nil
}

// try encodes m. It reports whether the result is worth it, and within the limits.
func (e *encoder) try(m *pawl.Message) (draft, bool) {
	r := recipe{length: len(m.Body)}
	d := draft{message: *m}
	d.message.Body = e.squeeze(&r, m.Body)
	if content := d.message.Body; e.offload > 0 && len(content) > e.offload {
		blob := e.blobs.refer(content)
		r.blob, d.blob, d.content, d.message.Body = &blob, &blob, content, nil
	}
	if r.blob == nil && !r.zstd {
		return draft{}, false
	}
	headers := make(map[string]string, len(m.Headers)+1)
	maps.Copy(headers, m.Headers)
	headers[Header] = r.String()
	d.message.Headers = headers
	if !e.greedy && d.message.Size() >= m.Size() {
		return draft{}, false
	}
	return d, d.message.Validate() == nil
}

// squeeze compresses content if that makes it shorter.
func (e *encoder) squeeze(r *recipe, content []byte) []byte {
	if e.compress && len(content) >= e.min {
		if b := e.shrink.shrink(content); b != nil && (len(b) < len(content) || e.greedy) {
			r.zstd, content = true, b
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
