package store

// Hint returns the next step for a person that err names, from the outermost [Error] in its tree that has one: other
// errors may be around it, and an Error without a hint, too. It is empty where there is none. The text of an error
// says what and why, so that callers show the hint where it is read: in a log line, a page, or below the error.
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
