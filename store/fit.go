package store

import "github.com/pawl-dev/pawl"

// Fitter is implemented by a store that refuses messages which others take. A
// wrapper that changes messages, or has another place for them, answers for what
// it makes of them.
type Fitter interface {
	// Fit returns the error of the receipt that m would get, as far as that is known
	// without asking anybody; nil says nothing.
	Fit(m *pawl.Message) error
}

// Fit tells, without any I/O, why s would surely refuse a message: what no store
// takes, and what this one does not. So who sends many can stop before the first that
// is refused, instead of hearing of it when those behind it are stored.
func Fit(s Store, m *pawl.Message) error {
	if err := m.Validate(); err != nil {
		return err
	}
	if f, ok := As[Fitter](s); ok {
		return f.Fit(m)
	}
	return nil
}
