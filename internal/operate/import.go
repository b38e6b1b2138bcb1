package operate

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/pawl-dev/pawl/internal/lines"
	"github.com/pawl-dev/pawl/store"
	"github.com/pawl-dev/pawl/store/codec"
)

// Bounds of a batch of letters.
const (
	importItems = 500
	importBytes = 8 << 20
)

// Imported counts the results of an import.
type Imported struct {
	Imported int64 `json:"imported"`
	Refused  int64 `json:"refused"`
}

// Importer buries dead letters that come as lines of JSON.
type Importer struct {
	Letters store.DeadLetters // nil: the lines are checked only
	// Into is the store of Letters. If a codec is around it, a line that an export
	// without one wrote is stored in the encoded form that it has: as the body that it
	// was sent with, that form would be delivered.
	Into store.Store
	// Bad is called for every line that is not a letter; the import continues without
	// it.
	Bad func(*lines.Error)
	// Refused is called for every letter that was not stored.
	Refused func(id string, why error)
	// Progress, if not nil, is called with the number of letters processed.
	Progress func(n int64)
}

// Run buries the letters of r, and returns what became of them, in any case.
func (m *Importer) Run(ctx context.Context, r io.Reader) (done Imported, err error) {
	in := lines.NewReader(r)
	_, encodes := store.As[store.Coder](m.Into)
	var batch []store.Record
	batched, size := map[string]bool{}, 0 // the ids of the batch
	for {
		line, err := in.Next()
		if errors.Is(err, io.EOF) {
			return done, m.bury(ctx, batch, &done)
		}
		if err != nil && !errors.Is(err, lines.ErrTooLong) {
			return done, fmt.Errorf("read line %d: %w", in.N, err)
		}
		if err == nil && len(bytes.TrimSpace(line)) == 0 {
			continue
		}
		var letter store.Record
		if err == nil {
			letter, err = ParseLetter(line)
		}
		if err != nil {
			done.Refused++
			m.Bad(&lines.Error{Line: in.N, Err: err})
			continue
		}
		if encodes && codec.IsEncoded(&letter.Message) {
			letter.Headers[codec.SealedHeader] = "exported without the codec"
		}
		// Letters are refused by id, so a batch has an id once.
		if len(batch) == importItems || size+letter.Size() > importBytes || batched[letter.ID] {
			if err := m.bury(ctx, batch, &done); err != nil {
				return done, err
			}
			batch, size = nil, 0
			clear(batched)
		}
		batch, size, batched[letter.ID] = append(batch, letter), size+letter.Size(), true
	}
}

func (m *Importer) bury(ctx context.Context, batch []store.Record, done *Imported) error {
	if err := context.Cause(ctx); err != nil {
		return err
	}
	refused := map[string]error{}
	if m.Letters != nil && len(batch) > 0 {
		var err error
		if refused, err = m.Letters.Bury(context.WithoutCancel(ctx), batch...); err != nil {
			return err
		}
	}
	done.Imported += int64(len(batch) - len(refused))
	done.Refused += int64(len(refused))
	for id, why := range refused {
		m.Refused(id, why)
	}
	if m.Progress != nil {
		m.Progress(done.Imported + done.Refused)
	}
	return nil
}
