kvcal doctor
