package project

import "context"

// OutboxStage is appended to the name of a projection to name the topic of its outbox.
const OutboxStage = "index"

// Headers of a change that was inserted into the outbox. The body is the document, the key its id.
const (
	OutboxOp      = "op"      // upsert or delete
	OutboxVersion = "version" // of the document
	OutboxTrace   = "trace_id"
)

// OutboxState and OutboxLetters are what the views of [Outbox] read: the state under the key OutboxState + projection,
// a JSON object, and dead letters that were replayed, marks of the scope OutboxLetters + projection by their id.
const (
	OutboxState   = "outbox/"
	OutboxLetters = "outbox letters/"
)

// Outbox is the optional interface of stores that live in the database of an application. The application inserts its
// changes into the view pawl_outbox in its own transactions: each change becomes a message in the topic
// PROJECTION.index, whose order is none.
type Outbox interface {
	// InstallOutbox makes the views pawl_outbox, pawl_outbox_status, dead_letter_outbox and projection_status beside
	// the tables of the application, or brings them up to date. It returns the grants that the application's user
	// needs, one statement each, for the role ROLE.
	InstallOutbox(ctx context.Context) (grants []string, err error)
	// OutboxInstalled reports whether the views exist.
	OutboxInstalled(ctx context.Context) (bool, error)
	// OutboxTopic makes the topic of a projection if it does not exist. So does an insert.
	OutboxTopic(ctx context.Context, projection string) error
}

// Rows is the optional interface for reading tables of the application whose database a store lives in.
type Rows interface {
	// Dialect names the database: postgres or sqlite.
	Dialect() string
	// Rows calls each for every row of a query, in a transaction that only reads. Columns are text; nil is NULL. The
	// row is valid until each returns. Parameters are written $1, $2 …, and are texts or whole numbers.
	Rows(ctx context.Context, each func(row []*string) error, query string, args ...any) error
}
