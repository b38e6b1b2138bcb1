package codec

import (
	"context"
	"maps"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/store"
)

// decoder reads back whatever a codec wrote, in whatever way it is set up
// itself. Safe for concurrent use.
type decoder struct {
	blobs  *folder // nil: there is none
	expand *compressor
}

// decode turns a message back into what it was when it was appended. One without
// the header is left alone. On error m is as it was.
func (d *decoder) decode(ctx context.Context, m *pawl.Message) error {
	value, encoded := m.Headers[Header]
	if !encoded {
		return nil
	}
	r, err := parseRecipe(value)
	if err != nil {
		return err
	}
	content, err := d.content(ctx, r, m.Body)
	if err != nil {
		return err
	}
	if len(content) != r.length {
		return damaged("it has %d bytes, not %d", len(content), r.length)
	}
	out := *m
	out.Headers = maps.Clone(m.Headers)
	delete(out.Headers, Header)
	out.Body = content
	if len(out.Headers) == 0 {
		out.Headers = nil
	}
	if len(out.Body) == 0 {
		out.Body = nil
	}
	*m = out
	return nil
}

// content undoes the steps, the last one first.
func (d *decoder) content(ctx context.Context, r *recipe, body []byte) (_ []byte, err error) {
	if r.blob != nil {
		if d.blobs == nil {
			return nil, &store.Error{Op: "decode", Code: store.ErrUnavailable, Err: errNoFolder,
				Hint: "set the codec's folder of blobs"}
		}
		if len(body) > 0 {
			return nil, damaged("it has a body beside its file")
		}
		if body, err = d.blobs.read(ctx, r.blob); err != nil {
			return nil, err
		}
	}
	if r.zstd {
		return d.expand.expand(body, r.length)
	}
	return body, nil
}
