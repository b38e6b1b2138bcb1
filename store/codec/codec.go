package codec

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/store"
	"github.com/pawl-dev/pawl/store/backend"
)

// Defaults of a [Config].
const (
	DefaultMin   = 1 << 10          // bytes
	DefaultAgain = 30 * time.Second // see [Config.Again]
	DefaultAge   = 24 * time.Hour   // see [Store.Collect]
)

// Config says how messages are encoded. Everything that a codec ever wrote can be read,
// regardless of it. The zero value only reads.
type Config struct {
	// Compress compresses bodies with zstd, if that makes them smaller.
	Compress bool
	// Min is the least size, in bytes, of a body to be compressed; 0 is
	// [DefaultMin].
	Min int
	// Blobs is the folder of large bodies; the folder above it must exist. A folder
	// belongs to one store; all processes of the store need it, under any name.
	// Empty: there is none, and deliveries that need one are released again.
	Blobs string
	// Offload is the size, in bytes and after compression, above which a body goes
	// to Blobs; 0 is never. It is at least [MinOffload].
	Offload int
	// Again is for how long a delivery is released whose blob cannot be read now;
	// 0 is [DefaultAgain].
	Again time.Duration
	// Report is called with problems of single messages; it may be nil. It is called
	// within Claim and Settle, perhaps concurrently, and must not block.
	Report func(Problem)
	// Tx lists the types of transactions, beside *sql.Tx, whose AppendTx encodes. That of
	// other types is the underlying store's: it stores messages as a program without the
	// codec would. These can be read, except a message with a header of the codec's own
	// names. Blobs are written at once: what they belong to may be rolled back, and then
	// they wait for Collect. A transaction must not stay open for as long as Collect spares
	// young blobs.
	Tx []Tx
}

// Tx is a type of transactions of a driver, made with [TxOf].
type Tx = backend.Tx

// TxOf names a type of transactions, for example pgx.Tx.
func TxOf[T any]() Tx { return backend.TxOf[T]() }

// MinOffload is the least [Config.Offload]: the reference to a smaller body would
// be longer than the body.
const MinOffload = 1 << 10

// Problem is something that went wrong with one message.
type Problem struct {
	ID, Topic string
	// Action is what was done about it, in words.
	Action string
	// Err wraps [store.ErrCorrupt] if the message cannot be decoded by any means.
	Err error
}

// Store encodes what goes into a store and decodes what comes out. It is safe for
// concurrent use. Make one with [New].
type Store struct {
	inner  store.Store
	below  store.Store // what Unwrap returns: layers, then inner
	encode encoder
	decode decoder
	again  time.Duration
	report func(Problem)

	mu     sync.Mutex // never held across a wait
	ratios map[string]float64
}

// New wraps inner. The result has the optional interfaces of inner.
func New(inner store.Store, c Config) (*Store, error) {
	if err := c.Check(); err != nil {
		return nil, err
	}
	s := &Store{
		inner: inner, again: cmp.Or(c.Again, DefaultAgain), report: c.Report, ratios: map[string]float64{},
	}
	if c.Blobs != "" {
		var err error
		if s.decode.blobs, err = openFolder(c.Blobs); err != nil {
			return nil, err
		}
	}
	shrink := newCompressor()
	s.decode.expand = shrink
	s.encode = encoder{
		compress: c.Compress, min: cmp.Or(c.Min, DefaultMin), offload: c.Offload, blobs: s.decode.blobs,
		shrink: shrink,
	}
	s.below = s.layers(c.Tx)
	return s, nil
}

// Check reports what is wrong with a configuration.
func (c *Config) Check() error {
	var faults pawl.Faults
	faults.If(c.Min < 0, "min %d is negative", c.Min)
	faults.If(c.Offload != 0 && c.Offload < MinOffload, "offload %d is less than %d", c.Offload, MinOffload)
	faults.If(c.Offload > 0 && c.Blobs == "", "offload needs a folder of blobs")
	faults.If(c.Again < 0 || c.Again > pawl.MaxDelay, "again %v goes from 0 to %v", c.Again, pawl.MaxDelay)
	if err := faults.Err(); err != nil {
		return &store.Error{Op: "open codec", Code: store.ErrInvalid, Err: err}
	}
	return nil
}

// layers puts the optional interfaces that inner has, and none else, between the
// codec and inner: store.As finds each on its way down.
func (s *Store) layers(txs []Tx) store.Store {
	below := backend.OverTx(s.inner, s.append, append([]Tx{TxOf[*sql.Tx]()}, txs...)...)
	if i, ok := store.As[store.Inspector](s.inner); ok {
		below = &inspector{layer{s, below}, i}
	}
	if d, ok := store.As[store.DeadLetters](s.inner); ok {
		below = &letters{layer{s, below}, d}
	}
	if r, ok := store.As[store.Results](s.inner); ok {
		below = &results{layer{s, below}, r}
	}
	return below
}

// layer is one optional interface over the codec.
type layer struct {
	*Store
	below store.Store
}

// Unwrap returns the layer below, and at last the store that the codec wraps.
func (l layer) Unwrap() store.Store { return l.below }

// Unwrap returns what is below: the optional interfaces that decode, and then the
// store that the codec wraps.
func (s *Store) Unwrap() store.Store { return s.below }

// Close implements [store.Store]: it closes the store that the codec wraps.
func (s *Store) Close() error { return s.inner.Close() }

// Extend implements [store.Store].
func (s *Store) Extend(ctx context.Context, by time.Duration, tokens ...pawl.Token) ([]pawl.Token, error) {
	return s.inner.Extend(ctx, by, tokens...)
}

// Describe implements [store.Describer]. Of a body nothing is refused: how large it is
// when it is stored is known when it is encoded.
func (s *Store) Describe() store.Description {
	d := store.Describe(s.inner)
	d.Refuses = func(m *pawl.Message) error {
		bare := *m
		bare.Body = nil
		return store.Fit(s.inner, &bare)
	}
	return d
}

// Append implements [store.Store]. A body that cannot be written to the folder of
// blobs fails the call, and nothing of it is stored.
func (s *Store) Append(ctx context.Context, batch store.Batch[pawl.Message]) ([]store.Receipt, error) {
	return s.append(ctx, batch, s.inner.Append)
}

// append encodes a batch and hands it to do. The caller's stays as it is.
func (s *Store) append(ctx context.Context, batch store.Batch[pawl.Message],
	do func(context.Context, store.Batch[pawl.Message]) ([]store.Receipt, error),
) ([]store.Receipt, error) {
	size := 0
	for i := range batch.Items {
		size += batch.Items[i].Size()
	}
	if len(batch.Items) > store.MaxBatch || size > store.MaxBatchBytes {
		if _, err := backend.Admit(batch); err != nil { // what is invalid does not count
			return nil, err
		}
	}
	items := make([]pawl.Message, len(batch.Items))
	refused := map[int]error{}
	for i := range batch.Items {
		var why, err error
		if items[i], why, err = s.encoded(ctx, batch.Items[i]); err != nil {
			return nil, err
		}
		if why != nil {
			refused[i] = why
		}
	}
	receipts, err := do(ctx, store.Batch[pawl.Message]{ID: batch.ID, Items: items})
	if len(refused) == 0 || len(receipts) < len(items) {
		return receipts, err
	}
	receipts = slices.Clone(receipts) // the store may remember its own
	for i, why := range refused {
		if receipts[i].Err != nil {
			receipts[i].Err = why
		}
	}
	return receipts, err
}

// encoded encodes a message and keeps its blob. One that the codec cannot take is made
// unfit, and why says so.
func (s *Store) encoded(ctx context.Context, m pawl.Message) (_ pawl.Message, why, err error) {
	d, why := s.encode.encode(m)
	if why != nil {
		return unfit(m), why, nil
	}
	return d.message, nil, s.keep(ctx, &d)
}

// unfit is m in a form that every store refuses. So the others of its batch keep
// their places, and a repetition of the batch has the outcome that it had.
func unfit(m pawl.Message) pawl.Message {
	m.Headers, m.Body = map[string]string{"": ""}, nil
	return m
}

// keep writes the blob of a draft, if it has one.
func (s *Store) keep(ctx context.Context, d *draft) error {
	if d.blob == nil {
		return nil
	}
	if err := ctx.Err(); err != nil {
		return &store.Error{Op: "write blob", Err: err}
	}
	return s.encode.blobs.put(d.blob, d.content)
}

// Settle implements [store.Store]. An emitted body that cannot be written to the
// folder of blobs is stored within its message, because other work depends on the
// call; the problem is reported.
func (s *Store) Settle(ctx context.Context, batch store.Batch[store.Settlement]) ([]store.Refusal, error) {
	if !slices.ContainsFunc(batch.Items, func(st store.Settlement) bool { return len(st.Emit) > 0 }) {
		return s.inner.Settle(ctx, batch)
	}
	bad, err := backend.AdmitSettle(batch)
	if err != nil {
		return nil, err
	}
	items, refused := slices.Clone(batch.Items), map[int]error{}
	for i := range items {
		if slices.ContainsFunc(bad, func(r store.Refusal) bool { return r.Index == i }) {
			continue // the store below refuses it, in its place
		}
		if items[i].Emit, refused[i], err = s.encodeEmits(ctx, &items[i]); err != nil {
			return nil, err
		}
	}
	refusals, err := s.inner.Settle(ctx, store.Batch[store.Settlement]{ID: batch.ID, Items: items})
	refusals = slices.Clone(refusals) // the store may remember its own
	for k, r := range refusals {
		if why := refused[r.Index]; why != nil && !errors.Is(r.Err, pawl.ErrLeaseLost) {
			refusals[k].Err = why
		}
	}
	return refusals, err
}

// encodeEmits encodes what a settlement emits. A message that the codec cannot
// take is made one that the store below refuses, and refused says why.
func (s *Store) encodeEmits(ctx context.Context, st *store.Settlement) (emits []pawl.Message, refused, err error) {
	emits = slices.Clone(st.Emit)
	for i, m := range emits {
		d, err := s.encode.encode(m)
		if err != nil {
			refused = pawl.Invalid("emit", "[%d]: %v", i, err)
			emits[i] = unfit(m)
			continue
		}
		emits[i] = d.message
		if err := s.keep(ctx, &d); err != nil {
			whole, ok := d.inline()
			if !ok {
				return nil, nil, err
			}
			emits[i] = whole
			s.problem(Problem{ID: pawl.EmitID(st.ID, i), Topic: m.Topic,
				Action: "stored with its body inside", Err: err})
		}
	}
	return emits, refused, nil
}

func (s *Store) problem(p Problem) {
	if s.report != nil {
		s.report(p)
	}
}
