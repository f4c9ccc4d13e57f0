"""The deep recurrent attentive writer, DRAW: pictures glimpse by glimpse, section 6.4."""
