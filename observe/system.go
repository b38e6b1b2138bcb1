package observe

import "github.com/pawl-dev/pawl"

// SystemError emits that a component of the process has failed; a nil error, that the
// failure was dealt with.
func (b *Bus) SystemError(component string, err error) error {
	e := system("SystemError", component, PhaseFailed, err)
	if err == nil {
		e.Phase = PhaseCompleted
	}
	return b.Emit(e)
}

// SystemStarted emits that a component has started; an error, that it did not.
func (b *Bus) SystemStarted(component string, err error) error {
	e := system("SystemHealth", component, PhaseStarted, err)
	if err != nil {
		e.Phase = PhaseFailed
	}
	return b.Emit(e)
}

// SystemChecked emits the result of a health check. An unhealthy component is not a
// failed check: the phase is Completed, and the error says what is wrong.
func (b *Bus) SystemChecked(component string, err error) error {
	e := system("SystemHealth", component, PhaseCompleted, err)
	e.Attrs["verdict"] = "healthy"
	if err != nil {
		e.Attrs["verdict"] = "unhealthy"
	}
	return b.Emit(e)
}

// SystemStopped emits that a component has shut down; an error, that it did not
// do so properly.
func (b *Bus) SystemStopped(component string, err error) error {
	e := system("SystemHealth", component, PhaseCompleted, err)
	e.Attrs["verdict"] = "stopped"
	if err != nil {
		e.Phase = PhaseFailed
	}
	return b.Emit(e)
}

func system(typ, component, phase string, err error) Envelope {
	e := Envelope{Domain: DomainSystem, Type: typ, Phase: phase, Attrs: map[string]string{"component": component}}
	if err != nil {
		e.Err, e.Kind = err.Error(), pawl.Describe(err).Kind
	}
	return e
}
