package pawl

import "context"

// Handler does the work of a topic. It is called concurrently.
//
// nil acks the delivery; an error goes to the policy, which decides between retry and
// dead letter. [Permanent], [Throttled], [Release] and [OfKind] tell the policy more.
// An error whose methods panic, as those of a nil pointer may, counts as a panic of the handler.
// The context ends when the lease is lost, when the deadline has passed or when the
// process must stop; context.Cause says which ([ErrLeaseLost], [ErrDeadline],
// [ErrDrain]). Work is delivered at least once: a handler must tolerate repetition.
type Handler interface {
	Handle(ctx context.Context, d *Delivery) error
}

// HandlerFunc is a function as a [Handler].
type HandlerFunc func(ctx context.Context, d *Delivery) error

// Handle calls f.
func (f HandlerFunc) Handle(ctx context.Context, d *Delivery) error { return f(ctx, d) }

// BatchHandler does the work of several deliveries at once. It returns a
// verdict per delivery, in their order: nil acks, an error fails that one
// alone. A result shorter than ds fails what is missing; it never acks it.
// A delivery that failed before comes in a smaller batch, a quarter for each
// attempt: what makes a whole batch fail is alone at last.
type BatchHandler interface {
	HandleBatch(ctx context.Context, ds []*Delivery) []error
}

// BatchHandlerFunc is a function as a [BatchHandler].
type BatchHandlerFunc func(ctx context.Context, ds []*Delivery) []error

// HandleBatch calls f.
func (f BatchHandlerFunc) HandleBatch(ctx context.Context, ds []*Delivery) []error {
	return f(ctx, ds)
}

// Middleware wraps a handler: logging, tracing, a transaction.
type Middleware func(Handler) Handler

// Chain wraps h so that the first middleware is the outermost.
func Chain(h Handler, ms ...Middleware) Handler {
	for i := len(ms) - 1; i >= 0; i-- {
		h = ms[i](h)
	}
	return h
}

// Typed decodes the body before it calls do. A body that does not decode is a
// permanent failure of kind [KindDecode]: no retry makes it readable. Without one of
// the functions it is a nil [HandlerFunc], which no dispatcher takes.
func Typed[T any](decode func([]byte, *T) error, do func(context.Context, T, *Delivery) error) Handler {
	if decode == nil || do == nil {
		return HandlerFunc(nil)
	}
	return HandlerFunc(func(ctx context.Context, d *Delivery) error {
		var v T
		if err := decode(d.Body, &v); err != nil {
			return Permanent(OfKind(KindDecode, err))
		}
		return do(ctx, v, d)
	})
}
