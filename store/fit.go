package store

import "github.com/pawl-dev/pawl"

// fitter is implemented by a store that refuses messages which others take. A wrapper
// that changes messages, or stores them elsewhere, answers for the messages as it will
// store them.
type fitter interface {
	// Fit returns the error that the receipt of m would have, as far as that is known
	// without I/O; nil promises nothing.
	Fit(m *pawl.Message) error
}

// Fit tells, without any I/O, why s is certain to refuse a message: because no store
// accepts it, or because this one does not. A caller that sends many messages can stop
// before the first that would be refused, instead of learning of it when later ones are
// already stored.
func Fit(s Store, m *pawl.Message) error {
	if err := m.Validate(); err != nil {
		return err
	}
	if f, ok := As[fitter](s); ok {
		return f.Fit(m)
	}
	return nil
}
