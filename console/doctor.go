package console

func doctorPages() []page {
	return []page{{path: "/doctor", file: "doctor", nav: "Doctor", key: "h", show: doctorPage}}
}

// diagnosis is what the doctor says of one thing.
type diagnosis struct {
	Check   string `json:"check"`
	Verdict string `json:"verdict"`
	Detail  string `json:"detail"`
	Fix     string `json:"fix"`
	Runbook string `json:"runbook"`
}

func doctorPage(v *view) (any, error) {
	var d struct {
		Findings []diagnosis
		Why      string // there are none
	}
	if _, err := v.get(&d.Findings, nil, "/doctor"); err != nil {
		d.Why = why(err)
	}
	return d, nil
}
