// Package preference has the losses of training on preferences: DPO and its relatives (Rafailov et
// al. 2023; IPO, Azar et al. 2023; hinge, Zhao et al. 2023; SimPO, Meng et al. 2024), ORPO (Hong et al. 2024)
// and KTO (Ethayarajh et al. 2024), as functions of the log-probabilities of whole answers, with
// their derivatives. It knows nothing of models.
package preference
