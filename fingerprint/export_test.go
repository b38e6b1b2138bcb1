package fingerprint

// Alike is what of a text makes its fingerprint.
func Alike(text string) string { return string(alikeIn(text)) }
