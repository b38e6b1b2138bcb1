package mirror

import (
	"context"
	"errors"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/store"
)

const probePrefix = "traffic/probe/"

// Same reports whether two stores are the same one, regardless of their addresses: copies
// would then be the originals, and consuming copies would lose messages. It puts an
// unguessable key into the state of the first, looks for it in that of the second, and
// removes it. A store without a state is never the same as another. It is safe for
// concurrent use.
func Same(ctx context.Context, a, b store.Store, who string) (same bool, err error) {
	here, ok1 := store.As[store.Shared](a)
	there, ok2 := store.As[store.Shared](b)
	if !ok1 || !ok2 {
		return false, nil
	}
	key := probePrefix + pawl.NewID()
	put, err := here.PutState(ctx, key, []byte(key), 0, who)
	if err != nil {
		return false, err
	}
	defer func() {
		clean, cancel := context.WithTimeout(context.WithoutCancel(ctx), sayTime)
		defer cancel()
		if bad := here.DeleteState(clean, key, put.Version); !errors.Is(bad, store.ErrNotFound) {
			err = errors.Join(err, bad)
		}
	}()
	switch _, err := there.GetState(ctx, key); {
	case err == nil:
		return true, nil
	case errors.Is(err, store.ErrNotFound), errors.Is(err, store.ErrUnsupported):
		return false, nil
	default:
		return false, err
	}
}

// ItselfError refuses a mirror that is the store under another name.
func ItselfError(op string) error {
	return &store.Error{Op: op, Code: store.ErrConflict,
		Err:  errors.New("the mirror is the store itself: every copy would be the original"),
		Hint: "name another, new store: --mirror, PAWL_MIRROR or mirror: in the configuration file"}
}
