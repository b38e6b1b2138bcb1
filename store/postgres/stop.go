package postgres

import (
	"errors"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"
)

// The answer of a statement, instead of rows, when it did nothing or its effect is to be taken
// back: minus one of these in the first column.
const (
	stopDue = iota + 1
	stopRepeated
	stopStrict
	stopAnew
	stopOneByOne
)

var (
	// errDue: a delayed message joins a lane before anything else does.
	errDue = errors.New("a delayed message is due")
	// errRepeated: the call was answered before.
	errRepeated = errors.New("the batch is stored already")
	// errStrict: the caller's transaction does not see what others commit after its first statement.
	errStrict = errors.New("the transaction is stricter than READ COMMITTED")
	// errAnew asks for another try of the same call.
	errAnew = errors.New("the data changed meanwhile")
	// errOneByOne: what becomes of one message depends on another in a way that one statement cannot decide.
	errOneByOne = errors.New("the messages go one by one")
)

// stops are the errors for these answers.
var stops = map[int]error{stopDue: errDue, stopRepeated: errRepeated, stopStrict: errStrict, stopAnew: errAnew,
	stopOneByOne: errOneByOne}

// isStop reports whether err is of a statement that the server executed.
func isStop(err error) bool {
	for _, stop := range stops {
		if errors.Is(err, stop) {
			return true
		}
	}
	return false
}

// isRepeated reports whether a call was answered before: earlier, or at the same moment.
func isRepeated(err error) bool {
	return errors.Is(err, errRepeated) || stateOf(err) == stateUnique && strings.Contains(err.Error(), "batch_pkey")
}

// cameBetween reports whether an insert met an id that came after it had looked: the next
// try sees it.
func cameBetween(err error) bool {
	pg, ok := errors.AsType[*pgconn.PgError](err)
	return errors.Is(err, errAnew) || ok && pg.Code == stateUnique && pg.ConstraintName == "msg_id"
}
