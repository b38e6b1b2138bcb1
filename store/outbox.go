package store

import "context"

// OutboxStage is what the topic of a projection's outbox is called after the projection.
const OutboxStage = "index"

// Headers of a change that was inserted into the outbox. The body is the document, the key its id.
const (
	OutboxOp      = "op"      // upsert or delete
	OutboxVersion = "version" // of the document
	OutboxTrace   = "trace_id"
)

// OutboxState and OutboxLetters are where the views of [Outbox] look: the state under the key OutboxState + projection,
// a JSON object, and dead letters that were replayed, marks of the scope OutboxLetters + projection by their id.
const (
	OutboxState   = "outbox/"
	OutboxLetters = "outbox letters/"
)

// Outbox is the optional interface of stores that live in a database of an application, which inserts what it changes
// into the view pawl_outbox in its own transaction: a change is a message from then on, in the topic
// PROJECTION.index, of order none.
type Outbox interface {
	// InstallOutbox makes the views pawl_outbox, pawl_outbox_status, dead_letter_outbox and projection_status beside
	// the tables of the application, or brings them up to date. It returns what the application's user has to be
	// granted, one statement each, for the role ROLE.
	InstallOutbox(ctx context.Context) (grants []string, err error)
	// OutboxInstalled tells whether they are there.
	OutboxInstalled(ctx context.Context) (bool, error)
	// OutboxTopic makes the topic of a projection if it is not there. An insert makes it, too.
	OutboxTopic(ctx context.Context, projection string) error
}

// Rows is the optional interface for reading tables of the application that a store shares its database with.
type Rows interface {
	// Dialect names the database: postgres or sqlite.
	Dialect() string
	// Rows calls each for every row of a query, in a transaction that only reads. Columns are text; nil is NULL. The
	// row is good until each returns. Parameters are written $1, $2 …, and are texts or whole numbers.
	Rows(ctx context.Context, each func(row []*string) error, query string, args ...any) error
}
