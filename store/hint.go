package store

// Hint returns the next step for a person, from the outermost [Error] in the tree of err that has one; it is empty
// where there is none. The text of an error says what failed and why, but not the hint: callers show that
// separately, in a log line, on a page, or below the error.
func Hint(err error) string {
	switch e := err.(type) { //nolint:errorlint // it walks the tree itself, past an Error without a hint
	case *Error:
		if e.Hint != "" {
			return e.Hint
		}
		return Hint(e.Err) // the code is a sentinel
	case interface{ Unwrap() error }:
		return Hint(e.Unwrap())
	case interface{ Unwrap() []error }:
		for _, cause := range e.Unwrap() {
			if hint := Hint(cause); hint != "" {
				return hint
			}
		}
	}
	return ""
}
